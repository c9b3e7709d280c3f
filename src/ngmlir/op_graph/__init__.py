# SPDX-License-Identifier: Apache-2.0
"""Layer 4: the op graph that a user writes: named axes, tensors, state and its order, autodiff, lifting to `ng`."""
