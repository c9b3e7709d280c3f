# SPDX-License-Identifier: Apache-2.0
"""Passes of a transformer: over the graph before it is lifted, and over the module afterwards."""
