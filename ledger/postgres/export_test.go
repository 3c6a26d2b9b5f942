package postgres

// OpenImpatient is Open with another bound for each request.
var OpenImpatient = open
