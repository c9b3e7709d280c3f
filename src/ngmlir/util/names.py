# SPDX-License-Identifier: Apache-2.0
"""What has a name, and scopes of names."""

from ..op_graph.names import NameableValue as NameableValue
from ..op_graph.names import NameScope as NameScope
from ..op_graph.names import name_scope as name_scope
