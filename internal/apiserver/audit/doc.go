// Package audit is the audit backend of the API server: it writes audit events, as an audit policy
// selects them, to a file or to a webhook.
//
// In: upstream's --audit-* options. Out: a server configuration with a backend, or an error that
// names the flag. The library does the writing, rotating, batching and sending; this package
// refuses combinations that would silently record nothing.
package audit
