// Package nodelog answers /logs?query=: the logs of the machine's services (journalctl) or of one
// file below the log directory.
//
// A request is read and validated in query.go (pure, upstream's texts: KEP-2258); run.go asks
// journalctl, or looks for files. In: URL values and the log directory. Out: text. To add an
// option: a field of Query, its rule in Check, its flag in args.
package nodelog
