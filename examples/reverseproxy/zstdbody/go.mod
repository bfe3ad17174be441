module github.com/warmroute/warmroute/examples/reverseproxy/zstdbody

go 1.26.0

require (
	github.com/klauspost/compress v1.18.3
	github.com/warmroute/warmroute v0.0.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace github.com/warmroute/warmroute => ../../..
