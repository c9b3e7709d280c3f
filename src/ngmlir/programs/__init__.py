# SPDX-License-Identifier: Apache-2.0
"""Programs of named variables: a module of the dialect `program`, its operators, and the passes that end in values."""
