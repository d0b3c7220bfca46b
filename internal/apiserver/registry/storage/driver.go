package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// Limits of the tokens a driver may ask for, in seconds, and of how often it may change what a node can attach.
const (
	shortestToken = 10 * 60
	longestToken  = 1 << 32
	oftenest      = 10
)

func drivers() kind.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	k := names("csidrivers", "CSIDriver", row.Types[storagev1.CSIDriver, storagev1.CSIDriverList]())
	k.Rules = row.Rules[storagev1.CSIDriver]{Default: defaultDriver, Check: checkDriver, Warn: warnDriver}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), boolean("AttachRequired", doc["attachRequired"]), boolean("PodInfoOnMount", doc["podInfoOnMount"]),
			boolean("StorageCapacity", doc["storageCapacity"]), column.Def("TokenRequests", doc["tokenRequests"]),
			boolean("RequiresRepublish", doc["requiresRepublish"]), column.Def("Modes", doc["volumeLifecycleModes"]), column.Age(),
		},
		Row: row.Cells(driverRow),
	}
	return k
}

func defaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	row.OrElse(&s.AttachRequired, true)
	row.OrElse(&s.PodInfoOnMount, false)
	row.OrElse(&s.StorageCapacity, false)
	row.OrElse(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	row.OrElse(&s.RequiresRepublish, false)
	row.OrElse(&s.SELinuxMount, false)
	row.OrElse(&s.PreventPodSchedulingIfMissing, false)
}

func warnDriver(d *storagev1.CSIDriver) []string {
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

func driverRow(d *storagev1.CSIDriver, o kind.RowOptions) []any {
	var modes, tokens []string
	for _, m := range d.Spec.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	for _, t := range d.Spec.TokenRequests {
		tokens = append(tokens, t.Audience)
	}
	orUnset := func(l []string, unset string) string {
		if len(l) == 0 {
			return unset
		}
		return strings.Join(l, ",")
	}
	attach := d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
	return []any{
		d.Name, attach, row.Value(d.Spec.PodInfoOnMount), row.Value(d.Spec.StorageCapacity),
		orUnset(tokens, "<unset>"), row.Value(d.Spec.RequiresRepublish), orUnset(modes, "<none>"), column.Since(d.CreationTimestamp, o.Now),
	}
}

func checkDriver(d, was *storagev1.CSIDriver) field.ErrorList {
	var f row.Findings
	s := &d.Spec
	if was == nil {
		const longest = 63
		if len(d.Name) > longest {
			f.Add(field.TooLong(field.NewPath("metadata", "name"), d.Name, longest))
		}
	}
	if p := s.FSGroupPolicy; p != nil {
		row.OneOf(&f, spec().Child("fsGroupPolicy"), *p, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	checkTokens(&f, s.TokenRequests)
	for _, m := range s.VolumeLifecycleModes {
		row.OneOf(&f, spec().Child("volumeLifecycleModes"), m, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < oftenest {
		f.Invalid(spec().Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds")
	}
	if b := s.ServiceAccountTokenInSecrets; b != nil && len(s.TokenRequests) == 0 {
		f.Invalid(spec().Child("serviceAccountTokenInSecrets"), *b, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	if was != nil {
		f.Same(spec().Child("attachedRequired"), s.AttachRequired, was.Spec.AttachRequired)
		f.Same(spec().Child("volumeLifecycleModes"), s.VolumeLifecycleModes, was.Spec.VolumeLifecycleModes)
	}
	return f.List()
}

func checkTokens(f *row.Findings, list []storagev1.TokenRequest) {
	path, seen := spec().Child("tokenRequests"), sets.New[string]()
	for i, t := range list {
		if seen.Has(t.Audience) {
			f.Add(field.Duplicate(path.Index(i).Child("audience"), t.Audience))
		}
		seen.Insert(t.Audience)
		if n := t.ExpirationSeconds; n != nil && *n < shortestToken {
			f.Invalid(path.Index(i).Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes")
		} else if n != nil && *n > longestToken {
			f.Invalid(path.Index(i).Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds")
		}
	}
}

func nodes() kind.Kind {
	k := names("csinodes", "CSINode", row.Types[storagev1.CSINode, storagev1.CSINodeList]())
	k.Types.HasStatus = true
	k.Rules = row.Rules[storagev1.CSINode]{
		// The health of a node's storage is behind a gate that is off by default: the status endpoint keeps what is stored.
		Status: func(n, was *storagev1.CSINode) { n.Status = was.Status },
		Check:  checkNode,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Int("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), column.Age()},
		Row: row.Cells(func(n *storagev1.CSINode, o kind.RowOptions) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), column.Since(n.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkNode(n, was *storagev1.CSINode) field.ErrorList {
	var f row.Findings
	path, seen := spec().Child("drivers"), sets.New[string]()
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], path.Index(i)
		f.Add(template.ValidateDriverName(d.Name, at.Child("name"))...)
		checkNodeDriver(&f, d, at)
		if seen.Has(d.Name) {
			f.Add(field.Duplicate(at.Child("name"), d.Name))
		}
		seen.Insert(d.Name)
	}
	if was == nil {
		return f.List()
	}
	for _, old := range was.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == old.Name {
				now.Allocatable, old.Allocatable = nil, nil // drivers may tell at any time how much a node can attach
				f.SameBare(path, now, old)
			}
		}
	}
	return f.List()
}

func checkNodeDriver(f *row.Findings, d *storagev1.CSINodeDriver, at *field.Path) {
	const longest = 192
	switch {
	case d.NodeID == "":
		f.Required(at.Child("nodeID"), "")
	case len(d.NodeID) > longest:
		f.Invalid(at.Child("nodeID"), d.NodeID, "must be 192 characters or less")
	}
	if a := d.Allocatable; a != nil {
		f.NotNegativeIf(at.Child("allocatable", "count"), a.Count)
	}
	keys := sets.New[string]()
	for _, k := range d.TopologyKeys {
		if k == "" {
			f.Required(at, "")
		}
		if keys.Has(k) {
			f.Add(field.Duplicate(at, k))
		}
		keys.Insert(k)
		f.Each(at, k, validation.IsQualifiedName(k))
	}
}

func capacities() kind.Kind {
	k := names("csistoragecapacities", "CSIStorageCapacity", row.InNamespace[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList]())
	k.Rules = row.Rules[storagev1.CSIStorageCapacity]{Check: checkCapacity}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.CreatedAt()},
		Row: row.Cells(func(c *storagev1.CSIStorageCapacity, _ kind.RowOptions) []any {
			return []any{c.Name, column.Timestamp(c.CreationTimestamp)}
		}),
	}
	return k
}

func checkCapacity(c, was *storagev1.CSIStorageCapacity) field.ErrorList {
	var f row.Findings
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	f.Selector(topology, c.NodeTopology)
	f.Subdomain(class, c.StorageClassName)
	if q := c.Capacity; q != nil && q.Sign() < 0 {
		f.Invalid(field.NewPath("capacity"), q.String(), "must be greater than or equal to 0")
	}
	if q := c.MaximumVolumeSize; q != nil && q.Sign() < 0 {
		f.Invalid(field.NewPath("maximumVolumeSize"), q.String(), "must be greater than or equal to 0")
	}
	if was != nil {
		f.Same(topology, c.NodeTopology, was.NodeTopology)
		f.Same(class, c.StorageClassName, was.StorageClassName)
	}
	return f.List()
}
