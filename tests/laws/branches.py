# SPDX-License-Identifier: Apache-2.0
"""Programs whose branches write parts of variables, for the laws of the memory plan: some of them hard, and random ones. Types
are written as `test_memory_plan.program` reads them: t = tensor<6xf32> and s = tensor<5x6xf32>."""

from __future__ import annotations

from itertools import count
from random import Random

#: What is hard about it -> the program.
BRANCHES = {
    "rows are written in a branch": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> s tied [0, 1] {
        %r = ng.if %c -> s {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d : s
        } else {
          ng.yield %a : s
        }
        return %r : s }""",
    "rows are written in both branches": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> s tied [0, 1] {
        %r = ng.if %c -> s {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %e = ng.scatter %d[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %e : s
        } else {
          %d = ng.scatter %a[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d : s
        }
        return %r : s }""",
    "rows are written in a branch that gives the old ones too": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 1] {
        %r, %o = ng.if %c -> (s, s) {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d, %a : s, s
        } else {
          ng.yield %a, %a : s, s
        }
        return %r, %o : s, s }""",
    "rows are written in a branch that reads the old ones": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 1] {
        %r, %o = ng.if %c -> (s, s) {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %e = ng.scatter %d[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %f = ng.subtract %e, %a : s
          ng.yield %e, %f : s, s
        } else {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %f = ng.subtract %d, %a : s
          ng.yield %d, %f : s, s
        }
        return %r, %o : s, s }""",
    "rows are written in a branch, and the old ones read behind it": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 1] {
        %r = ng.if %c -> s {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d : s
        } else {
          ng.yield %a : s
        }
        %f = ng.subtract %r, %a : s
        return %r, %f : s, s }""",
    "rows are written before, in and behind a branch": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 1] {
        %x = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %r = ng.if %c -> s {
          %d = ng.scatter %x[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d : s
        } else {
          %d = ng.cumulative_sum %x axis 0 : s
          ng.yield %d : s
        }
        %y = ng.scatter %r[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
        %z = ng.negative %y : s
        return %y, %z : s, s }""",
    "rows are written in branches of branches": """(%c: tensor<i1>, %a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> s tied [0, 1] {
        %k = ng.bitwise_not %c : tensor<i1>
        %r = ng.if %c -> s {
          %d = ng.scatter %a[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %q = ng.if %k -> s {
            %e = ng.scatter %d[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
            ng.yield %e : s
          } else {
            ng.yield %d : s
          }
          %g = ng.scatter %q[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %g : s
        } else {
          %q = ng.if %k -> s {
            %e = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
            ng.yield %e : s
          } else {
            %e = ng.negative %a : s
            ng.yield %e : s
          }
          ng.yield %q : s
        }
        return %r : s }""",
    "rows are written in a branch of a loop": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>, %k: tensor<3xi1>) -> s tied [0, 0] {
        %r = ng.scan iter(%p = %a) over(%c: tensor<i1> = %k) -> s {
          %q = ng.if %c -> s {
            %d = ng.scatter %p[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
            ng.yield %d : s
          } else {
            ng.yield %p : s
          }
          ng.yield %q : s
        }
        return %r : s }""",
    "rows are written in a branch of a loop that keeps the old ones": """(%a: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>, %k: tensor<3xi1>) -> (s, s, s) tied [0, 0] {
        %r, %o, %e = ng.scan iter(%p = %a, %x = %a, %y = %a) over(%c: tensor<i1> = %k) -> (s, s, s) {
          %q = ng.if %c -> s {
            %d = ng.scatter %p[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
            ng.yield %d : s
          } else {
            ng.yield %y : s
          }
          %f = ng.subtract %q, %x : s
          ng.yield %q, %p, %f : s, s, s
        }
        return %r, %o, %e : s, s, s }""",
    "branches swap two variables": """(%c: tensor<i1>, %a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s) tied [0, 1, 1, 2] {
        %x, %y = ng.if %c -> (s, s) {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %b, %d : s, s
        } else {
          %d = ng.scatter %b[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d, %a : s, s
        }
        return %x, %y : s, s }""",
    "branches give one value twice": """(%c: tensor<i1>, %a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> (s, s, s) tied [0, 1, 1, 2] {
        %x, %y, %z = ng.if %c -> (s, s, s) {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %d, %d, %b : s, s, s
        } else {
          %d = ng.cumulative_sum %b axis 1 : s
          %e = ng.scatter %d[%i], %u axis 0 {combine = "add"} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          ng.yield %e, %b, %e : s, s, s
        }
        return %x, %y, %z : s, s, s }""",
    "a branch gives what another argument is": """(%c: tensor<i1>, %a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> s tied [0, 1] {
        %r = ng.if %c -> s {
          ng.yield %b : s
        } else {
          %d = ng.cumulative_sum %b axis 0 : s
          %e = ng.cumulative_sum %d axis 1 : s
          ng.yield %e : s
        }
        return %r : s }""",
    "a branch gives a part of what it has": """(%c: tensor<i1>, %a: tensor<10x6xf32>, %b: s) -> (s, tensor<10x6xf32>) tied [0, 2] {
        %r, %o = ng.if %c -> (s, tensor<10x6xf32>) {
          %d = ng.slice %a from [5, 0] to [10, 6] step [1, 1] : (tensor<10x6xf32>) -> s
          ng.yield %d, %a : s, tensor<10x6xf32>
        } else {
          %e = ng.negative %a : tensor<10x6xf32>
          %d = ng.slice %e from [0, 0] to [5, 6] step [1, 1] : (tensor<10x6xf32>) -> s
          ng.yield %d, %e : s, tensor<10x6xf32>
        }
        return %r, %o : s, tensor<10x6xf32> }""",
    "a branch of a branch reads what is overwritten": """(%c: tensor<i1>, %a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>, %k: tensor<3xi1>) -> (s, s) tied [0, 1] {
        %n = ng.bitwise_not %c : tensor<i1>
        %x, %y = ng.if %c -> (s, s) {
          %d = ng.scatter %a[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
          %p, %q = ng.if %n -> (s, s) {
            ng.yield %b, %d : s, s
          } else {
            ng.yield %d, %d : s, s
          }
          ng.yield %p, %q : s, s
        } else {
          ng.yield %a, %b : s, s
        }
        return %x, %y : s, s }""",
    "rows are written in a loop in a branch": """(%c: tensor<i1>, %a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>, %k: tensor<3xi1>) -> (s, tensor<3x5x6xf32>) tied [0, 1] {
        %x, %y = ng.if %c -> (s, tensor<3x5x6xf32>) {
          %r, %w = ng.scan iter(%p = %a) over(%f: tensor<i1> = %k) -> (s, tensor<3x5x6xf32>) {
            %d = ng.scatter %p[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s
            %e = ng.if %f -> s {
              ng.yield %d : s
            } else {
              ng.yield %b : s
            }
            ng.yield %d, %e : s, s
          }
          ng.yield %r, %w : s, tensor<3x5x6xf32>
        } else {
          %z = ng.constant dense<1.0> : tensor<3x5x6xf32>
          ng.yield %a, %z : s, tensor<3x5x6xf32>
        }
        return %x, %y : s, tensor<3x5x6xf32> }""",
}


def choices(seed: int) -> str:
    """A program whose branches, some of them in loops, write rows of two variables and of what is made of them."""
    random, number = Random(seed), count()

    def ops(known: list[str], level: int, flag: str) -> list[str]:
        """Some lines, whose values come to those that are known."""
        lines: list[str] = []
        for _ in range(random.randint(0, 3)):
            new, x, y = f"%{next(number)}", random.choice(known), random.choice(known)
            match random.choice(
                ["set", "add", "map", "sum", "both", *["if", "if", "scan"][: 3 * (level < 2)]]
            ):
                case "set":
                    lines.append(
                        f"{new} = ng.scatter {x}[%i], %u axis 0 : (s, tensor<2xi32>, tensor<2x6xf32>) -> s"
                    )
                case "add":
                    how = '{combine = "add"}'
                    lines.append(
                        f"{new} = ng.scatter {x}[%i], %u axis 0 {how} : (s, tensor<2xi32>, tensor<2x6xf32>) -> s"
                    )
                case "map":
                    lines.append(f"{new} = ng.negative {x} : s")
                case "sum":
                    lines.append(f"{new} = ng.cumulative_sum {x} axis 0 : s")
                case "both":
                    lines.append(f"{new} = ng.subtract {x}, {y} : s")
                case "if":
                    other = f"%{next(number)}"
                    branches = [" {\n" + body(known, level + 1, flag) + "}" for _ in range(2)]
                    lines.append(f"{new}, {other} = ng.if {flag} -> (s, s)" + " else".join(branches))
                    known.append(other)
                case _:
                    other, p, q, f = (f"%{next(number)}" for _ in range(4))
                    inner = body([*known, p, q], level + 1, f)
                    over = f"iter({p} = {x}, {q} = {y}) over({f}: tensor<i1> = %k)"
                    lines.append(f"{new}, {other} = ng.scan {over} -> (s, s) {{\n{inner}}}")
                    known.append(other)
            known.append(new)
        return lines

    def body(known: list[str], level: int, flag: str) -> str:
        known = [*known]
        lines = ops(known, level, flag)
        gives = random.choices(known[-3:], k=2)
        return "\n".join([*lines, f"ng.yield {gives[0]}, {gives[1]} : s, s\n"])

    known = ["%a", "%b"]
    lines = [line for _ in range(3) for line in ops(known, 0, "%c")]
    gives = ", ".join(random.choices(known[-4:], k=3))
    tied = random.choice(["[0, 0, 1, 1]", "[0, 1, 1, 0]", "[2, 1]"])
    given = "%a: s, %b: s, %i: tensor<2xi32>, %u: tensor<2x6xf32>, %c: tensor<i1>, %k: tensor<3xi1>"
    return f"({given}) -> (s, s, s) tied {tied} {{\n" + "\n".join([*lines, f"return {gives} : s, s, s }}"])
