// Package credentialprovider asks the node for ways to log in to registries: credential provider
// plugins, and the node's own Docker configuration.
//
// The exec protocol is credentialprovider.kubelet.k8s.io (KEP-2133), with service-account tokens as
// KEP-4412 says. What a plugin answers is kept as long as it allows, by image, registry or for all.
//
// In: CredentialProviderConfig files, plugin programs, an image and the Pod it is for. Out:
// images.Credential values for image/pull.
package credentialprovider
