# SPDX-License-Identifier: Apache-2.0
"""Layer 5: the passes, in folders by stage. `PASSES` (passes/registry.py) names them all.

`graph` rewrites programs of tensors, `fuse` groups ops into fusions and adds their loop nests, `schedule` chooses a schedule for each
nest, `lower` makes kernels and plans memory. `analysis` has what all of them use. A folder imports from itself, from those before it
and from `analysis`.
"""
