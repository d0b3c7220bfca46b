package memapi

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// discovery answers which groups and resources there are.
func (s *Server) discovery(c *call) (runtime.Object, error) {
	parts := strings.Split(strings.Trim(c.http.URL.Path, "/"), "/")
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return &metav1.APIVersions{Versions: []string{coreGroup.Version}}, nil
	case len(parts) == 1 && parts[0] == "apis":
		return s.groups(), nil
	case len(parts) == 2 && parts[0] == "api":
		return s.resources(schema.GroupVersion{Version: parts[1]}), nil
	case len(parts) == 3 && parts[0] == "apis":
		return s.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]}), nil
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, c.Verb, schema.GroupResource{},
		c.http.URL.Path, "", 0, true)
}

func (s *Server) groups() *metav1.APIGroupList {
	out := &metav1.APIGroupList{}
	for _, gv := range s.set.Versions() {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i := slices.IndexFunc(out.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if i < 0 {
			out.Groups = append(out.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
			i = len(out.Groups) - 1
		}
		out.Groups[i].Versions = append(out.Groups[i].Versions, v)
	}
	return out
}

func (s *Server) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	out := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for path, storage := range s.set.Storages(gv) {
		kinds, _, err := s.scheme.ObjectKinds(storage.New())
		if err != nil || len(kinds) == 0 {
			continue
		}
		kind := kinds[0]
		if p, ok := storage.(rest.GroupVersionKindProvider); ok {
			kind = p.GroupVersionKind(gv)
		}
		r := metav1.APIResource{Name: path, Kind: kind.Kind, Group: kind.Group, Version: kind.Version,
			Verbs: metav1.Verbs{"get", "list", "create", "update", "patch", "delete"}}
		if r.Version == runtime.APIVersionInternal {
			r.Group, r.Version = gv.Group, gv.Version
		}
		if scoped, ok := storage.(rest.Scoper); ok {
			r.Namespaced = scoped.NamespaceScoped()
		}
		out.APIResources = append(out.APIResources, r)
	}
	slices.SortFunc(out.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// isDiscovery tells whether an object is about the API itself, which is answered as JSON.
func isDiscovery(o runtime.Object) bool {
	switch o.(type) {
	case *metav1.APIVersions, *metav1.APIGroupList, *metav1.APIResourceList:
		return true
	}
	return false
}
