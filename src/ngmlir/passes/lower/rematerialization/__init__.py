# SPDX-License-Identifier: Apache-2.0
"""The parts of rematerialization: what steps read, write and cost, their order, what is kept. The pass is passes/lower/rematerialize.py."""
