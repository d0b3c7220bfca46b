// Package nfnetlink speaks netlink with nf_tables: it sends small changes of one table as one
// batch, lists the table, and hears who else changes it.
//
// The program nft takes milliseconds for any change, more the more chains there are, as it first
// reads what the kernel has; one batch of netlink takes what the kernel takes. Operations whose
// words this package does not know are refused with ErrUnknown before anything is sent: the caller
// gives them to nft.
//
// In: rules.Op with the rules' texts. Out: batches in the kernel (all of one or nothing),
// TableContents, names of chains that others touched. A new kind of rule: words.go, with a case in
// test/proxy's table of both ways.
package nfnetlink
