package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// KeyPrefix is where the objects of a resource lie in etcd, as /registry/pods/. custom says that a
// CustomResourceDefinition defines it.
func KeyPrefix(gr schema.GroupResource, custom bool) string {
	// The servers of definitions and of APIServices keep their kinds under their group, as
	// upstream's.
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
