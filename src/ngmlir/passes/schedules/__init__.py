# SPDX-License-Identifier: Apache-2.0
"""How schedules are chosen: candidates for each family of kernels, and what they are predicted to cost."""
