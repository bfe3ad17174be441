package loadstats

// VisitORCA lets the tests see metrics that have no place in a Report.
var VisitORCA = visitORCA
