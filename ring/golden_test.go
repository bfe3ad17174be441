package ring_test

// Placement as it was released. The logarithms are those of an exact
// computation within the error that negLog states: 64·ln 2 = 44.3614, ln 2 =
// 0.6931 and 2.6436 in units of 2^-58.
var goldenWalks = map[uint64]string{
	0:                  "[d c b a f e]",
	1:                  "[d b c f a e]",
	0xffffffffffffffff: "[d e f b a c]",
	0x0123456789abcdef: "[a f e b d c]",
}

const (
	goldenSum     = 0x350bff0385988a49
	goldenLog0    = 0xb17217f7d1cf79bf
	goldenLogHalf = 0x2c5c85fdf473de6
	goldenLogSome = 0xa92f4b9d02b276a
)
