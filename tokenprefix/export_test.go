package tokenprefix

// Mix is the function that links the blocks of a chain.
var Mix = mix

// MediaTokens is what a media part counts for.
const MediaTokens = mediaTokens
