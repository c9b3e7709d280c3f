# SPDX-License-Identifier: Apache-2.0
"""From ops on tensors to fusions with loop nests: one module per pass, and how they group ops."""
