package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// KeyPrefix returns the prefix of a resource's keys in etcd, such as /registry/pods/. custom: a
// CustomResourceDefinition defines the resource.
func KeyPrefix(gr schema.GroupResource, custom bool) string {
	// CustomResourceDefinitions and APIServices are stored under their group, as
	// upstream.
	if custom || gr.Group == "apiextensions.k8s.io" || gr.Group == "apiregistration.k8s.io" {
		return store.Prefix + "/" + gr.Group + "/" + gr.Resource + "/"
	}
	if gr.Resource == "events" {
		gr.Group = ""
	}
	name := gr.Resource
	if other, ok := resourcePrefixes()[gr]; ok {
		name = other
	}
	return store.Prefix + "/" + strings.ToLower(name) + "/"
}
