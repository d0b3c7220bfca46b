package storageversionmigrator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// pageSize is how many values are read at once.
const pageSize = 500

// Migrator rewrites stored objects. One goroutine may use it at a time.
type Migrator struct {
	Etcd      *clientv3.Client
	Discovery discovery.DiscoveryInterface
	Objects   dynamic.Interface
	// Prefix returns the etcd prefix of a resource, such as /registry/pods/; custom: it is defined
	// by a CustomResourceDefinition.
	Prefix func(gr schema.GroupResource, custom bool) string
	// DryRun does not write.
	DryRun bool
	// OnProgress is called after each page and at the end of each resource; may be nil.
	OnProgress func(Report)
}

// Report is the result for one resource.
type Report struct {
	Resource string         `json:"resource"` // deployments.apps
	Objects  int            `json:"objects"`
	Forms    map[string]int `json:"forms"` // number of objects by form
	Written  int            `json:"written"`
	Failed   int            `json:"left"` // could not be written, see Problems
	Done     bool           `json:"done"`
	Problems []string       `json:"problems,omitempty"` // the first few
}

// maxProblems bounds Report.Problems.
const maxProblems = 5

// resource is one stored resource.
type resource struct {
	schema.GroupVersionResource
	namespaced, custom bool
}

// Run migrates all resources. Objects that cannot be written are reported and skipped.
func (u *Migrator) Run(ctx context.Context) ([]Report, error) {
	all, err := u.resources(ctx)
	if err != nil {
		return nil, err
	}
	var out []Report
	for _, r := range all {
		report, err := u.migrateResource(ctx, r)
		if err != nil {
			return out, fmt.Errorf("%s: %w", r.GroupResource(), err)
		}
		if report.Objects > 0 {
			out = append(out, report)
		}
	}
	return out, nil
}

// MigrateResource migrates one resource; ErrNotServed if there is none of this name.
func (u *Migrator) MigrateResource(ctx context.Context, gr schema.GroupResource) (Report, error) {
	r, err := u.find(ctx, gr)
	if err != nil {
		return Report{}, err
	}
	return u.migrateResource(ctx, r)
}

// Revision returns the resourceVersion of a list of the resource now.
func (u *Migrator) Revision(ctx context.Context, gr schema.GroupResource) (string, error) {
	r, err := u.find(ctx, gr)
	if err != nil {
		return "", err
	}
	list, err := u.Objects.Resource(r.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("list %s: %w", gr, err)
	}
	return list.GetResourceVersion(), nil
}

func (u *Migrator) find(ctx context.Context, gr schema.GroupResource) (resource, error) {
	all, err := u.resources(ctx)
	if err != nil {
		return resource{}, err
	}
	for _, r := range all {
		if r.GroupResource() == gr {
			return r, nil
		}
	}
	return resource{}, ErrNotServed
}

// resources returns the resources that can be read and patched, in the server's preferred version.
func (u *Migrator) resources(ctx context.Context) ([]resource, error) {
	custom, err := u.customResources(ctx)
	if err != nil {
		return nil, err
	}
	lists, err := u.Discovery.ServerPreferredResources()
	// an unavailable aggregated server stores its objects elsewhere
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask which resources are served: %w", err)
	}
	var out []resource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if gr := gv.WithResource(r.Name); slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch") &&
				!strings.Contains(r.Name, "/") {
				out = append(out, resource{gr, r.Namespaced, custom[gr.GroupResource()]})
			}
		}
	}
	slices.SortFunc(out, func(a, b resource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

// customResources returns the resources that CustomResourceDefinitions define.
func (u *Migrator) customResources(ctx context.Context) (map[schema.GroupResource]bool, error) {
	crds, err := u.Objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // CustomResourceDefinitions are not served
	}
	if err != nil {
		return nil, fmt.Errorf("list custom resource definitions: %w", err)
	}
	out := map[schema.GroupResource]bool{}
	for _, c := range crds.Items {
		name, group, _ := strings.Cut(c.GetName(), ".")
		out[schema.GroupResource{Group: group, Resource: name}] = true
	}
	return out, nil
}

// resourceMigration is the migration of one resource.
type resourceMigration struct {
	*Migrator
	resource
	report  Report
	current map[string]bool // forms that were tried: true if the server still writes them
}

func (u *Migrator) migrateResource(ctx context.Context, r resource) (Report, error) {
	p := &resourceMigration{Migrator: u, resource: r, current: map[string]bool{},
		report: Report{Resource: r.GroupResource().String(), Forms: map[string]int{}}}
	prefix := u.Prefix(r.GroupResource(), r.custom)
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		res, err := u.Etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return p.report, fmt.Errorf("read %s: %w", from, err)
		}
		for _, kv := range res.Kvs {
			form := StorageForm(kv.Value)
			p.report.Objects++
			p.report.Forms[form]++
			if u.DryRun || p.current[form] {
				continue
			}
			if err := p.rewriteObject(ctx, strings.TrimPrefix(string(kv.Key), prefix), form); err != nil {
				return p.report, err
			}
		}
		p.report.Done = !res.More
		if u.OnProgress != nil {
			report := p.report
			report.Forms = maps.Clone(p.report.Forms)
			u.OnProgress(report)
		}
		if !res.More {
			return p.report, nil
		}
		from = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
	}
}

// rewriteObject has the server rewrite one object and learns whether its form is current. It only
// returns an error if ctx ends or the server is down.
func (p *resourceMigration) rewriteObject(ctx context.Context, key, form string) error {
	namespace, name := "", key
	if p.namespaced {
		namespace, name, _ = strings.Cut(key, "/")
	}
	var objects dynamic.ResourceInterface = p.Objects.Resource(p.GroupVersionResource)
	if p.namespaced {
		objects = p.Objects.Resource(p.GroupVersionResource).Namespace(namespace)
	}
	changed, err := patchUnchanged(ctx, objects, name)
	switch {
	case err == nil && changed:
		p.report.Written++
	case err == nil:
		p.current[form] = isReadable(form)
	case apierrors.IsNotFound(err):
	case ctx.Err() != nil || apierrors.IsServiceUnavailable(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return err
	default:
		p.report.Failed++
		if len(p.report.Problems) < maxProblems {
			p.report.Problems = append(p.report.Problems, key+": "+err.Error())
		}
	}
	return nil
}

// patchUnchanged sends an empty patch with uid and resourceVersion; true if the server wrote the
// object.
func patchUnchanged(ctx context.Context, objects dynamic.ResourceInterface, name string) (bool, error) {
	const tries = 5
	for try := 1; ; try++ {
		previous, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		nothing := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q}}`, previous.GetUID(),
			previous.GetResourceVersion())
		now, err := objects.Patch(ctx, name, types.MergePatchType, nothing,
			metav1.PatchOptions{FieldManager: "gantry-etcd-upgrade"})
		switch {
		case err == nil:
			return now.GetResourceVersion() != previous.GetResourceVersion(), nil
		case !apierrors.IsConflict(err) || try == tries:
			return false, err
		}
	}
}
