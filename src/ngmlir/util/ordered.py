# SPDX-License-Identifier: Apache-2.0
"""`OrderedSet`, a set that keeps the order in which its members came."""

from ..op_graph.ordered import OrderedSet as OrderedSet
