# SPDX-License-Identifier: Apache-2.0
"""From programs to programs of fewer, primitive ops on tensors: one module per pass."""
