package tokenprefix

// Parts of the package that tests compare with slower ones.
var (
	Mix           = mix
	ClosingQuote  = closingQuote
	NextRespelled = nextRespelled
	ParseID       = parseID
	SkipNumeric   = skipNumeric
)

// MediaTokens is what a media part counts for.
const MediaTokens = mediaTokens
