# SPDX-License-Identifier: Apache-2.0
"""Layer 5: the passes, in folders by stage. `PASSES` (passes/registry.py) names them all.

`graph` rewrites programs of tensors, `fuse` groups ops into fusions and writes their loop nests, `schedule` chooses how each nest runs,
`lower` makes kernels and plans memory. `analysis` is what all of them ask. A folder imports from itself and from those before it.
"""
