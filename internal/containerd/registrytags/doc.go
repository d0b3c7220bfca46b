// Package registrytags lists the tags of an image's repository in its registry.
//
// It connects as containerd does: mirrors, certificates and plain http from the host's hosts.toml,
// with the given credentials. In: an image, containerd's directory of registry hosts, optional
// credentials. Out: the tags, in the registry's order.
package registrytags
