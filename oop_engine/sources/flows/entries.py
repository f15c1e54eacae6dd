"""The entries of the decoder's arrays, named for the compiled loops and for Python alike.

A session's row of `table`, a datagram's row of `heads`, a plan's row of `facts`, an operation of a plan, the walk's
`cursor`: all are int64 (operations int32), told apart by these numbers.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from numpy import float64, int32, int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from operators.kernels.data.byte_order import Whole as Whole
from punctuation import NO_TIME as NO_TIME

Given: TypeAlias = tuple[
    NDArray[uint8], NDArray[int64], NDArray[int32], NDArray[int64], NDArray[uint64], NDArray[int32]
]
"""Datagrams: their bytes; where each begins, its length, when it came, from which address (two words), which port."""
SessionTables: TypeAlias = tuple[
    NDArray[uint64], NDArray[uint64], NDArray[int64], NDArray[int32], NDArray[int64], NDArray[int64], NDArray[int64],
    NDArray[int64], NDArray[int64], NDArray[int32], NDArray[int32],
]  # fmt: skip
"""Sessions: keys, senders, table, index, marks of recent datagrams, gaps, sets read before, drops, allowances, the
templates in their slots and the plans of these."""
PlanTables: TypeAlias = tuple[NDArray[int64], NDArray[int32], NDArray[int32]]
"""Plans: facts, the segments of their records, their operations."""
RunLists: TypeAlias = tuple[NDArray[int32], NDArray[int64], NDArray[int32], NDArray[int64], NDArray[int32]]
"""Runs of records: plan, where it begins, how many, the row of the first, the datagram."""
ColumnTables: TypeAlias = tuple[NDArray[int64], NDArray[int64], NDArray[int64]]
"""Columns: where each begins, where the lengths of its entries do, and the bytes of an entry."""
OutTables: TypeAlias = tuple[NDArray[uint8], NDArray[uint16], NDArray[uint32], NDArray[uint64], NDArray[float64]]
"""One memory under five types."""

EARLIEST: Final = 631_152_000 * 10**9  # 1990
LATEST: Final = 4_102_444_800 * 10**9  # 2100
VARIABLE: Final = 0xFFFF
"""The length of a field that brings its own."""

# What an operation does with the field it loads.
UNSIGNED: Final = 0
SIGNED: Final = 1
BOOLEAN: Final = 2
FLOAT32: Final = 3  # four bytes into a column of eight
SECONDS: Final = 4
MILLISECONDS: Final = 5
NTP_MICROSECONDS: Final = 6
NTP_NANOSECONDS: Final = 7
DELTA_MICROSECONDS: Final = 8
UPTIME: Final = 9
UPTIME_SINCE: Final = 10  # of a record that says when its clock began, which OTHER has loaded
AFTER: Final = 11  # a duration, added to a time column that is filled already
OTHER: Final = 12  # kept for the operation that follows
# Rates are stored where there is one, over what an operation before has stored.
RATE: Final = 13  # 0 is none
RATE_SPACED: Final = 14  # packets taken; OTHER has loaded the packets left out
SAMPLER: Final = 15  # the number of a sampler or an interface, if the exporter announced a rate for it
# What it takes from the datagram.
FROM_HEAD: Final = 16
# What it copies.
IPV4: Final = 17
IPV4_SET: Final = 18  # an address unless it is 0.0.0.0
BYTES: Final = 19
VARYING: Final = 20
VARYING_TEXT: Final = 21  # without the zero bytes that fill a fixed length
FROM_EXPORTER: Final = 22
# More that is stored where it is not 0, over what an operation before has stored.
UNSIGNED_SET: Final = 23
OF_TEMPLATE: Final = 24  # the rate that the exporter announced for the template of the records

# The columns of an operation.
O_COLUMN: Final = 0
O_KIND: Final = 1
O_SEGMENT: Final = 2
O_OFFSET: Final = 3
O_LENGTH: Final = 4
O_EXTRA: Final = 5  # the entry of the head, the column AFTER adds to, the kinds of rates as bits
O_FACTOR: Final = 6
O_WIDTH: Final = 7  # how many there are

# What a datagram's head tells of all its records.
H_EXPORT: Final = 0  # ns since 1970, NO_TIME where it cannot be
H_UPTIME: Final = 1  # ms, -1 where the protocol has none
H_INIT: Final = 2  # ms since 1970 at which the exporter's clock began, NO_TIME where it was not said
H_RATE: Final = 3
H_DOMAIN: Final = 4
H_VERSION: Final = 5
H_SESSION: Final = 6
H_ARRIVAL: Final = 7
H_PORT: Final = 8
H_SAMPLERS: Final = 9  # how many rates the session has announced for a sampler or an interface
H_LOST: Final = 10  # what the sequence says was lost up to it: records of v5 and IPFIX, datagrams of others
H_RECEIVED: Final = 11  # what came before it, in the same unit
H_SEQUENCE: Final = 12  # of IPFIX, else -1
H_WIDTH: Final = 13
H_WIDTHS_BEFORE: Final = (10, 12)  # without what was lost and received, and without the sequence

# For what a rate was announced.
BY_SAMPLER: Final = 1
BY_INTERFACE: Final = 2  # by which packets come or go
BY_INGRESS: Final = 3
BY_EGRESS: Final = 4
BY_TEMPLATE: Final = 5

# Why a walk stopped.
DONE: Final = 0
FULL: Final = 1  # no room for more rows or runs
STRANGER: Final = 2  # a session that is not known
RESTARTED: Final = 3  # the exporter began anew
TEMPLATES: Final = 4
OPTIONS: Final = 5
UNKNOWN: Final = 6  # data without a template, or with one that has expired
RAW: Final = 7  # the first data of a template, whose plan is not compiled yet

# Versions as users see them.
V1: Final = 1
V5: Final = 5
V7: Final = 7
V9: Final = 9
IPFIX: Final = 10
SFLOW: Final = 105

# A session's entries in `table`: who it is, what was last seen, what was announced, what was counted.
T_VERSION: Final = 0
T_DOMAIN: Final = 1
T_PORT: Final = 2  # and the transport, see `channel`
T_USED: Final = 3
T_REFUSED: Final = 4
T_EXPECTED: Final = (
    5  # the sequence number to come; -1 where it is not known, less where only that it is behind one, see `gaps`
)
T_UPTIME: Final = 6
T_BOOT: Final = 7  # ms since 1970 at which the exporter's clock began, modulo 2^32, by its last header
T_EXPORT: Final = 8
T_CANDIDATE: Final = 9  # the number to come if the last one out of place is right, -1 where there is none
T_RECENT: Final = 10  # where the next mark goes
T_GAPS: Final = 11
T_IDLE: Final = 12  # the last datagram moved the sequence by nothing
T_INIT: Final = 13
T_RATE: Final = 14
T_SAMPLERS: Final = 15
T_READ: Final = 16  # where the next set that was read goes
T_ALSO: Final = (
    17  # v5 and v7: the number to come if the last datagram's records count, not those it announced; else -1
)
T_OLD_BOOT: Final = 18  # T_BOOT before the exporter began anew, T_UPTIME without times of export; -1 where it did not
T_BEGAN: Final = 19  # T_EXPORT when it did
T_ALLOWANCE: Final = 20  # the row of `allowances`
DATAGRAMS: Final = 21
RECORDS: Final = 22
OPTION_RECORDS: Final = 23
COUNTER_SAMPLES: Final = 24
SKIPPED: Final = 25  # sets and samples of kinds that nothing here reads
TEMPLATES_SEEN: Final = 26
WITHDRAWN: Final = 27
EXPIRED: Final = 28
HELD: Final = 29
NO_TEMPLATE: Final = 30
LOST: Final = 31
REORDERED: Final = 32
DUPLICATED: Final = 33
RESTARTS: Final = 34
REFUSED: Final = 35
BAD_HEADER: Final = 36  # too short, or of no version that is read
BAD_LENGTH: Final = 37  # another length than the header says
BAD_SET: Final = 38  # a set that reaches beyond its datagram
BAD_RECORD: Final = 39  # a record that reaches beyond its set
BAD_TEMPLATE: Final = 40
BAD_OPTIONS: Final = 41
BAD_SAMPLE: Final = 42
BAD_FIELD: Final = 43  # a field of a template whose length its type cannot have
TOO_MANY: Final = 44  # a datagram of more records than one may hold
UNTIMED: Final = 45  # records without a start
SHED: Final = 46  # records that were read and left out
BEYOND: Final = 47  # records behind the most that a datagram may hold
LEFT_OUT: Final = 48  # sets that would have been more work than an exporter may make
UNUSED_RATES: Final = 49  # rates announced for what no record tells
UNSAMPLED: Final = 50  # packets that an agent of sFlow would have sampled, had it had the means
UNENDED: Final = 51  # records without an end
UNRATED: Final = 52  # records that name a sampler that is not announced, and of which nothing else tells the rate
UNTOLD: Final = 53  # datagrams behind which the sequence tells no loss, as not all that they hold could be counted
UNADMITTED: Final = 54  # datagrams of strangers beyond those that are taken in
TABLE_WIDTH: Final = 55
COUNTERS: Final = DATAGRAMS  # the first of them

NOBODY: Final = 0
"""The session of what cannot be laid to anybody."""

# What is known of a plan.
P_KIND: Final = 0
P_SIZE: Final = 1  # bytes of a record, at least
P_VARIABLE: Final = 2  # fields of variable length
P_EXPIRES: Final = 3  # ns since 1970
P_OPERATIONS: Final = 4
P_USED: Final = 5
P_TEMPLATE: Final = 6
P_BORN: Final = 7
P_WIDTH: Final = 8

K_FLOWS: Final = 0
K_OPTIONS: Final = 1  # of interest to nobody
K_READ_OPTIONS: Final = 2
K_RAW: Final = 3  # of records, whatever they are; not compiled yet

PLAN_V5: Final = 0
PLAN_SFLOW: Final = 1
PLAN_V1: Final = 2
PLAN_V7: Final = 3

# Where the walk stands.
C_DATAGRAM: Final = 0
C_AT: Final = 1  # 0: before the header
C_END: Final = 2
C_SESSION: Final = 3
C_UNITS: Final = 4  # by how much this datagram moves its sequence, as far as that is known; -1 where it never will be
C_MODE: Final = 5
C_SEQUENCE: Final = 6
C_MARK: Final = 7
C_ROWS: Final = 8
C_RUNS: Final = 9
C_RECORDS: Final = 10  # of this datagram
C_CLOCK: Final = 11  # datagrams walked so far, for the order of use
C_BODY: Final = 12  # the set or header that Python has to see
C_BODY_END: Final = 13
C_PLAN: Final = 14
C_TEMPLATE: Final = 15
C_DOMAIN: Final = 16
C_VERSION: Final = 17
C_COUNT: Final = 18
C_BYTES: Final = 19  # the mark of the bytes that Python has to see
C_HIGH: Final = 20  # the exporter's address, as it lies in memory
C_LOW: Final = 21
C_WORK: Final = 22  # what Python has done for this datagram
C_FULL: Final = 23  # this datagram has more records than one may hold
C_STRANGERS: Final = 24  # how many more strangers may be taken in
C_REFUSED: Final = 25  # how many more of those that may not send are told of singly
C_WAITS: Final = (
    26  # sets of this datagram that wait for their templates, which will tell how far it moves its sequence
)
C_OPEN: Final = 27  # it was not known at its head which number was to come; a template in it may have told since
CURSOR_WIDTH: Final = 28

# What work Python does for templates and options, in units of about a byte read: for a datagram, and for an exporter in
# the long run. An exporter may be ahead of that by BURST; `allowances` have, in ns, the time until which it has worked.
MOST_WORK: Final = 12_288
UNIT: Final = 30_518  # ns: 32,768 units a second
BURST: Final = 262_144 * UNIT
STREAM: Final = 1 << 16
"""The channel of a connection is this or more, see `channel`."""
FREELY: Final = 0
"""The row of `allowances` for whom nothing is counted."""

# A set of templates or options that was read already, and changes nothing until its time.
R_BYTES: Final = 0
R_TEMPLATES: Final = 1  # how many it has
R_UNTIL: Final = 2
R_WIDTH: Final = 3
