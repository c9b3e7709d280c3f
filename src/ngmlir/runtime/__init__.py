# SPDX-License-Identifier: Apache-2.0
"""Layer 4: devices, buffers, loading, calling, threads, the cache. Does not know the IR."""
