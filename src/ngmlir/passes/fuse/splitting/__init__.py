# SPDX-License-Identifier: Apache-2.0
"""How reductions are split into parts."""
