// Package nfnetlink talks netlink to nf_tables: it sends changes of one table as one batch, lists
// the table, and listens for changes by other programs.
//
// The program nft takes milliseconds per change, more with more chains, because it reads the
// kernel's ruleset first; a netlink batch takes only the kernel's time. Operations that this
// package cannot encode are refused with ErrUnknown before anything is sent; the caller gives them
// to nft.
//
// In: rules.Op with rules as text. Out: applied batches (all or nothing), TableContents, names of
// changed chains. To add a kind of rule: parserule.go, with a case in test/proxy's table that runs
// both ways.
package nfnetlink
