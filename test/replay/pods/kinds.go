package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// kinds are the paths of what a server serves, by "group/version Kind" and by "Kind" alone: the
// server says them itself, so no kind is forgotten. "NAMESPACE" stands for the namespace.
type kinds map[string]string

// discoverKinds asks a server for the paths of its kinds.
func discoverKinds(url string, client *http.Client) (kinds, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: url}, client)
	if err != nil {
		return nil, err
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	return kindsOf(lists)
}

// kindsOf reads the answers of discovery. A kind that several groups have is by its name alone that
// of the group that comes first, as with kubectl, in its most stable version; subresources are no
// kinds.
func kindsOf(lists []*metav1.APIResourceList) (kinds, error) {
	out, by := kinds{}, map[string]schema.GroupVersion{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		root := "/apis/" + l.GroupVersion
		if gv.Group == "" {
			root = "/api/" + l.GroupVersion
		}
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			path := root + "/" + r.Name
			if r.Namespaced {
				path = root + "/namespaces/NAMESPACE/" + r.Name
			}
			out[l.GroupVersion+" "+r.Kind] = path
			old, taken := by[r.Kind]
			if !taken || old.Group == gv.Group && version.CompareKubeAwareVersionStrings(gv.Version, old.Version) > 0 {
				out[r.Kind], by[r.Kind] = path, gv
			}
		}
	}
	return out, nil
}

// path is where objects of a kind are; with an apiVersion it is that version's.
func (k kinds) path(apiVersion, kind, namespace string) (string, error) {
	key := kind
	if apiVersion != "" {
		key = apiVersion + " " + kind
	}
	p, ok := k[key]
	if !ok {
		return "", fmt.Errorf("the server serves no kind %q", key)
	}
	return strings.Replace(p, "NAMESPACE", namespace, 1), nil
}

// object is the path of one object, of its subresource, or with an empty name of all of its kind.
func (l *podRun) object(kind, name, subresource string) (string, error) {
	p, err := l.kinds.path("", kind, l.c.Namespace)
	for _, part := range []string{name, subresource} {
		if part != "" {
			p += "/" + part
		}
	}
	return p, err
}

// list returns the names of a kind's objects that no other controls; of a kind that is not served,
// none.
func (l *podRun) list(ctx context.Context, kind string) []string {
	at, err := l.object(kind, "", "")
	if err != nil {
		return nil
	}
	a, err := l.send(ctx, request{Method: http.MethodGet, Path: at})
	if err != nil || a.code != http.StatusOK {
		return nil
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name            string
				OwnerReferences []struct{ Controller bool }
			}
		}
	}
	if json.Unmarshal(a.body, &list) != nil {
		return nil
	}
	var out []string
	for _, i := range list.Items {
		if len(i.Metadata.OwnerReferences) == 0 {
			out = append(out, i.Metadata.Name)
		}
	}
	return out
}
