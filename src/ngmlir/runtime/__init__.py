# SPDX-License-Identifier: Apache-2.0
"""Rank 4: devices, buffers, loading, calling, threads, the cache. Knows no tensor IR."""
