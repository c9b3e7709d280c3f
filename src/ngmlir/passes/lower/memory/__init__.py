# SPDX-License-Identifier: Apache-2.0
"""The parts of the memory plan: steps on buffers, their lives, their places. The pass is passes/lower/plan_memory.py."""
