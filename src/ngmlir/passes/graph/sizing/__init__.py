# SPDX-License-Identifier: Apache-2.0
"""Functions with open lengths: specialized to known lengths, or rewritten for blocks of rows."""
