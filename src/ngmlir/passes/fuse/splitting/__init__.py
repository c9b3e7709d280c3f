# SPDX-License-Identifier: Apache-2.0
"""How reductions are cut into parts."""
