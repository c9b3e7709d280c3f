# SPDX-License-Identifier: Apache-2.0
"""The parts of the memory plan: steps on buffers, live ranges, offsets. The pass is passes/lower/plan_memory.py."""
