# SPDX-License-Identifier: Apache-2.0
"""PTX without a GPU: a reader (`reader.read`) and a simulator (`module.Module`) of the final kernel text.

text --reader--> Program --inline--> one body per kernel --decoders--> steps --schedule--> results or a fault
"""
