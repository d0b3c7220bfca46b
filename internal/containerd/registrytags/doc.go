// Package registrytags asks a registry which tags there are of an image's repository.
//
// It goes the way containerd goes: mirrors, certificates and plain http as the host's hosts.toml
// says, credentials as given. In: an image, containerd's directory of registry hosts, perhaps a
// user. Out: the tags, in the order of the registry.
package registrytags
