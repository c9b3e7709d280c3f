# SPDX-License-Identifier: Apache-2.0
"""Layer 0: plain records that all packages use. Imports nothing of the project."""
