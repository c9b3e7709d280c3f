# SPDX-License-Identifier: Apache-2.0
"""The thread pool behind `ngmlir_parallel`: fork-join with tickets, as LLVM IR.

One 64-bit word, the ticket, holds `generation:16 | end:24 | next:24`. The caller claims chunks from the front by
incrementing `next` in a compare-and-exchange, the workers from the back by decrementing `end`: so a thread mostly gets
the same chunks in the next call, whose data is in its own cache. A worker that sleeps or is not scheduled does not
delay a call: its chunks go to other threads. All three fields are in one word, so a claim that succeeds is valid even
if the worker slept through many calls. Nested calls, and callers that find the pool in use, run their chunks
themselves. Workers spin for a moment for the next call and then sleep on a futex; they are started by the first call
that has more than one chunk, and again in a forked child.

On a machine whose cores are busy, a worker may lose its core in the middle of a chunk, and the caller may wait for
longer than all the work would have taken it alone. So the pool keeps a balance of the time that sharing has gained and
lost, with some credit, since waking a worker costs first and pays off later. When the balance falls below the credit,
it is reset and callers run their chunks alone for a while: for as long as what was lost, twice as long each time, up to
16 times; every call that gains decrements that factor. So a machine that stays busy loses a few percent, and one that
becomes free is detected soon.
"""

from __future__ import annotations

from .pool_machines import MACHINES

#: Pause instructions while the caller waits for the last chunk; then it yields its core, which a worker may need.
_PATIENCE = 64
#: How often it yields before it sleeps.
_OFFERS = 100
#: Calls run alone for at most this many times the time that sharing has lost.
_REST = 16
#: Ticks of the clock, some 200 us: the credit below 0 that the balance may have.
_CREDIT = {"x86_64": 500_000, "aarch64": 20_000}
#: Ticks of the clock, some 400 us, that a worker spins for the next call before it sleeps: waking it takes ten us.
_SPIN = {"x86_64": 1_000_000, "aarch64": 40_000}
#: The balance is at most this many times the length of the last call: gains of long calls do not offset losses of short
#: ones.
_SAVINGS = 16

_TEXT = """
@ticket = internal global i64 0, align 64
@done = internal global i64 0, align 64
@generation = internal global i32 0, align 64     ; what workers sleep on
@sleepers = internal global i32 0, align 64
@busy = internal global i32 0, align 64           ; 1 while a call is under way
@waiting = internal global i32 0, align 64        ; 1 while the caller sleeps on @done
@function = internal global ptr null, align 64
@data = internal global ptr null
@chunks = internal global i64 0
@first = internal global i64 0                    ; of the batch: chunks beyond 24 bits come in batches
@rounding = internal global i64 0                 ; floating point control word of the caller
@rested = internal global i64 0                   ; when calls are shared again
@factor = internal global i64 1                   ; of the next rest
@account = internal global i64 0                  ; what sharing has gained, in ticks of the clock
@threads = internal global i32 1
@spin = internal global i32 0
@started = internal global i32 0

declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)

{machine}

define void @ngmlir_pool_reset(i32 %threads, i32 %spin) nounwind {{
  store i64 0, ptr @ticket
  store i64 0, ptr @done
  store i32 0, ptr @sleepers
  store i32 0, ptr @busy
  store i32 0, ptr @waiting
  store i32 0, ptr @started
  store i64 0, ptr @rested
  store i64 1, ptr @factor
  store i64 0, ptr @account
  store i32 %threads, ptr @threads
  store i32 %spin, ptr @spin
  ret void
}}

define internal void @sleep(ptr %word, i32 %seen) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}}

define internal void @wake(ptr %word, i32 %count) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}}

; Runs chunks until none is left, in the rounding mode of the caller; %mode is the one this thread is in.
; From the front, or from the back; gives how many it ran.
define internal i64 @drain(i64 %mode, i1 %front) nounwind {{
entry:
  %t.0 = load atomic i64, ptr @ticket acquire, align 8
  br label %look
look:
  %t = phi i64 [ %t.0, %entry ], [ %t.seen, %claim ], [ %t.after, %ran ]
  %own = phi i64 [ %mode, %entry ], [ %own, %claim ], [ %word, %ran ]
  %count = phi i64 [ 0, %entry ], [ %count, %claim ], [ %count.next, %ran ]
  %next = and i64 %t, 16777215
  %t.high = lshr i64 %t, 24
  %end = and i64 %t.high, 16777215
  %left = icmp ult i64 %next, %end
  br i1 %left, label %claim, label %out
claim:
  %step = select i1 %front, i64 1, i64 -16777216
  %t.claimed = add i64 %t, %step
  %pair = cmpxchg ptr @ticket, i64 %t, i64 %t.claimed acq_rel acquire
  %t.seen = extractvalue {{ i64, i1 }} %pair, 0
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %mine, label %look
mine:
  ; The call cannot end before this chunk is done, so what it published stands still.
  %word = load i64, ptr @rounding
  %differs = icmp ne i64 %word, %own
  br i1 %differs, label %adopt, label %run
adopt:
  call void @set_rounding(i64 %word)
  br label %run
run:
  %f = load ptr, ptr @function
  %d = load ptr, ptr @data
  %base = load i64, ptr @first
  %chunks = load i64, ptr @chunks
  %end.last = sub i64 %end, 1
  %place = select i1 %front, i64 %next, i64 %end.last
  %index = add i64 %base, %place
  call void %f(ptr %d, i64 %index)
  %before = atomicrmw add ptr @done, i64 1 seq_cst
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %chunks
  br i1 %last, label %finish, label %ran
finish:
  %w = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %w, 0
  br i1 %asleep, label %rouse, label %ran
rouse:
  call void @wake(ptr @done, i32 1)
  br label %ran
ran:
  %count.next = add i64 %count, 1
  %t.after = load atomic i64, ptr @ticket acquire, align 8
  br label %look
out:
  ret i64 %count
}}

define internal ptr @worker(ptr %unused) nounwind {{
entry:
  %spins = load i32, ptr @spin
  %spins.wide = zext i32 %spins to i64
  %spin = mul i64 %spins.wide, {spin}
  br label %outer
outer:
  %seen = phi i32 [ 0, %entry ], [ %g, %work ]
  %since = call i64 @clock()
  br label %look
look:
  %g = load atomic i32, ptr @generation acquire, align 4
  %changed = icmp ne i32 %g, %seen
  br i1 %changed, label %work, label %idle
idle:
  %now = call i64 @clock()
  %spun = sub i64 %now, %since
  %enough = icmp uge i64 %spun, %spin
  br i1 %enough, label %nap, label %again
again:
  call void @pause()
  br label %look
nap:
  %s.0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @sleep(ptr @generation, i32 %seen)
  %s.1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
work:
  %ran = call i64 @drain(i64 -1, i1 false)
  br label %outer
}}

; Signals are for the threads that Python knows, so workers are born with all of them blocked.
define internal void @start() nounwind {{
entry:
  store i32 1, ptr @started
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %id = alloca i64, align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %blocked = call i32 @pthread_sigmask(i32 0, ptr %all, ptr %old)
  %threads = load i32, ptr @threads
  br label %look
look:
  %n = phi i32 [ 1, %entry ], [ %n.next, %born ]
  %more = icmp slt i32 %n, %threads
  br i1 %more, label %one, label %out
one:
  %error = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr null)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %out, label %born
born:
  %thread = load i64, ptr %id
  %detached = call i32 @pthread_detach(i64 %thread)
  %n.next = add i32 %n, 1
  br label %look
out:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}}

define internal void @batch(ptr %function, ptr %data, i64 %first, i64 %chunks) nounwind {{
entry:
  store ptr %function, ptr @function
  store ptr %data, ptr @data
  store i64 %first, ptr @first
  store i64 %chunks, ptr @chunks
  %word = call i64 @get_rounding()
  store i64 %word, ptr @rounding
  store atomic i64 0, ptr @done monotonic, align 8
  %g = load atomic i32, ptr @generation monotonic, align 4
  %g.next = add i32 %g, 1
  %g.wide = zext i32 %g.next to i64
  %t.generation = shl i64 %g.wide, 48
  %t.chunks = shl i64 %chunks, 24
  %t = or i64 %t.generation, %t.chunks
  store atomic i64 %t, ptr @ticket release, align 8
  %begin = call i64 @clock()
  %g.old = atomicrmw add ptr @generation, i32 1 seq_cst
  %s = load atomic i32, ptr @sleepers seq_cst, align 4
  %asleep = icmp ne i32 %s, 0
  br i1 %asleep, label %rouse, label %help
rouse:
  %others = trunc i64 %chunks to i32
  %count = sub i32 %others, 1
  call void @wake(ptr @generation, i32 %count)
  br label %help
help:
  %start = call i64 @clock()
  %ran = call i64 @drain(i64 %word, i1 true)
  %drained = call i64 @clock()
  br label %wait
wait:
  %spun = phi i32 [ 0, %help ], [ %spun.next, %again ], [ %spun.next, %yield ], [ 0, %nap ]
  %d = load atomic i64, ptr @done acquire, align 8
  %all = icmp eq i64 %d, %chunks
  br i1 %all, label %out, label %idle
idle:
  %spun.next = add i32 %spun, 1
  %hot = icmp ult i32 %spun, {patience}
  br i1 %hot, label %again, label %warm
again:
  call void @pause()
  br label %wait
warm:
  %patient = icmp ult i32 %spun, {offered}
  br i1 %patient, label %yield, label %cold
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
cold:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %d.again = load atomic i64, ptr @done seq_cst, align 8
  %late = icmp eq i64 %d.again, %chunks
  br i1 %late, label %awake, label %doze
doze:
  %d.low = trunc i64 %d.again to i32
  call void @sleep(ptr @done, i32 %d.low)
  br label %awake
awake:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  br label %nap
nap:
  br label %wait
out:
  ; Alone, every chunk would have taken the caller as long as its own ones did.
  %end = call i64 @clock()
  %shared = sub i64 %end, %begin
  %own = sub i64 %drained, %start
  %own.all = mul i64 %own, %chunks
  %divisor = call i64 @llvm.smax.i64(i64 %ran, i64 1)
  %alone = sdiv i64 %own.all, %divisor
  %gain = sub i64 %alone, %shared
  %before = load i64, ptr @account
  %sum = add i64 %before, %gain
  %long = call i64 @llvm.smax.i64(i64 %alone, i64 %shared)
  %most = mul i64 %long, {savings}
  %balance = call i64 @llvm.smin.i64(i64 %sum, i64 %most)
  %factor = load i64, ptr @factor
  %overdrawn = icmp slt i64 %balance, -{credit}
  br i1 %overdrawn, label %rest, label %go.on
rest:
  %lost = sub i64 0, %balance
  %length = mul i64 %lost, %factor
  %until = add i64 %end, %length
  store i64 %until, ptr @rested
  store i64 0, ptr @account
  %twice = shl i64 %factor, 1
  %more = call i64 @llvm.smin.i64(i64 %twice, i64 {rest})
  store i64 %more, ptr @factor
  ret void
go.on:
  store i64 %balance, ptr @account
  %gained = icmp sgt i64 %gain, 0
  %step = zext i1 %gained to i64
  %one.less = sub i64 %factor, %step
  %less = call i64 @llvm.smax.i64(i64 %one.less, i64 1)
  store i64 %less, ptr @factor
  ret void
}}

; Runs chunks one after the other, the first one at least, until it is %until; gives how many it ran.
define internal i64 @alone(ptr %function, ptr %data, i64 %chunks, i64 %until) nounwind {{
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %i.next, %look ]
  call void %function(ptr %data, i64 %i)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %chunks
  br i1 %more, label %look, label %out
look:
  %now = call i64 @clock()
  %ahead = sub i64 %until, %now
  %go.on = icmp sgt i64 %ahead, 0
  br i1 %go.on, label %one, label %out
out:
  ret i64 %i.next
}}

define void @ngmlir_parallel(ptr %function, ptr %data, i64 %chunks) nounwind {{
entry:
  %any = icmp sgt i64 %chunks, 0
  br i1 %any, label %some, label %out
some:
  %threads = load i32, ptr @threads
  %one.thread = icmp sle i32 %threads, 1
  %one.chunk = icmp eq i64 %chunks, 1
  %plain = or i1 %one.thread, %one.chunk
  br i1 %plain, label %serial, label %try
try:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %check, label %serial
serial:
  %all = call i64 @alone(ptr %function, ptr %data, i64 %chunks, i64 {always})
  br label %out
check:
  %now = call i64 @clock()
  %rested = load i64, ptr @rested
  %ahead = sub i64 %rested, %now
  %tired = icmp sgt i64 %ahead, 0
  br i1 %tired, label %rest, label %share
rest:
  %ran = call i64 @alone(ptr %function, ptr %data, i64 %chunks, i64 %rested)
  br label %share
share:
  %begun = phi i64 [ 0, %check ], [ %ran, %rest ]
  %started = load i32, ptr @started
  %cold = icmp eq i32 %started, 0
  br i1 %cold, label %begin, label %look
begin:
  call void @start()
  br label %look
look:
  %first = phi i64 [ %begun, %share ], [ %begun, %begin ], [ %first.next, %some.more ]
  %more = icmp slt i64 %first, %chunks
  br i1 %more, label %some.more, label %end
some.more:
  %left = sub i64 %chunks, %first
  %count = call i64 @llvm.smin.i64(i64 %left, i64 16777215)
  call void @batch(ptr %function, ptr %data, i64 %first, i64 %count)
  %first.next = add i64 %first, %count
  br label %look
end:
  store atomic i32 0, ptr @busy release, align 4
  br label %out
out:
  ret void
}}
"""

#: Without a futex, every call runs alone.
_SERIAL_TEXT = """
define void @ngmlir_pool_reset(i32 %threads, i32 %spin) nounwind {
  ret void
}

define void @ngmlir_parallel(ptr %function, ptr %data, i64 %chunks) nounwind {
entry:
  %any = icmp sgt i64 %chunks, 0
  br i1 %any, label %one, label %out
one:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  call void %function(ptr %data, i64 %i)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %chunks
  br i1 %more, label %one, label %out
out:
  ret void
}
"""


def pool_text(triple: str) -> str:
    """The pool for a machine, or the one that runs everything alone if the machine is not supported."""
    architecture = triple.partition("-")[0]
    machine = MACHINES.get(architecture)
    if machine is None or "linux" not in triple:
        return _SERIAL_TEXT
    number, own = machine
    return _TEXT.format(
        futex=number,
        machine=own,
        patience=_PATIENCE,
        offered=_PATIENCE + _OFFERS,
        rest=_REST,
        credit=_CREDIT[architecture],
        spin=_SPIN[architecture],
        savings=_SAVINGS,
        always=(1 << 63) - 1,
    )
