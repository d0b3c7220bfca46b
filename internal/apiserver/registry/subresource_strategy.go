package registry

import "k8s.io/apiserver/pkg/registry/rest"

// SubresourceStrategy is a kind's strategy for updates of a subresource, which embeds it and has
// rules of its own: declarative validation stays the kind's, which also reports once what several
// rules find.
type SubresourceStrategy struct {
	rest.RESTUpdateStrategy
	rest.DeclarativeValidationStrategy
}

// NewSubresourceStrategy returns the strategy of a subresource of a kind of this package's.
func NewSubresourceStrategy(kind rest.RESTUpdateStrategy) SubresourceStrategy {
	return SubresourceStrategy{kind, kind.(rest.DeclarativeValidationStrategy)}
}
