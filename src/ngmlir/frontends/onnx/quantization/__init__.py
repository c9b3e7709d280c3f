# SPDX-License-Identifier: Apache-2.0
"""Models in 8 and 4 bits, made from models in f32."""
