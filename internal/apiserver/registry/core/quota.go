package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func limitRanges() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.LimitRange, v1.LimitRangeList]()
	t.NoGenerate = true
	return resourcedef.Kind{
		Version: "v1", Resource: "limitranges", Singular: "limitrange", Kind: "LimitRange",
		Names: resourcedef.Names{Short: []string{"limits"}},
		Types: t,
		Rules: typed.Rules[v1.LimitRange]{
			Default: defaultLimitRange,
			PrepareForCreate: func(_ context.Context, l *v1.LimitRange) {
				if l.Name == "" {
					l.Name = string(uuid.NewUUID()) // the one kind that needs no name
				}
			},
			Validate:                 func(l, _ *v1.LimitRange) field.ErrorList { return validateLimitRange(l) },
			AllowUnconditionalUpdate: true,
			AllowCreateOnUpdate:      true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.CreatedAtColumn()},
			Row: typed.RowFunc(func(l *v1.LimitRange, _ resourcedef.RowOptions) []any {
				return []any{l.Name, printers.TimestampCell(l.CreationTimestamp)}
			}),
		},
	}
}

// defaultLimitRange derives a container's default limit from the maximum, its default request from
// that or the minimum.
func defaultLimitRange(l *v1.LimitRange) {
	for i := range l.Spec.Limits {
		it := &l.Spec.Limits[i]
		if it.Type == v1.LimitTypeContainer {
			it.Default = withoutEmpty(it.Default, it.Max)
			it.DefaultRequest = withoutEmpty(it.DefaultRequest, it.Default)
			it.DefaultRequest = withoutEmpty(it.DefaultRequest, it.Min)
		}
		for _, list := range []v1.ResourceList{it.Max, it.Min, it.Default, it.DefaultRequest, it.MaxLimitRequestRatio} {
			podspec.RoundResources(list)
		}
	}
}

// withoutEmpty adds to list what only from has.
func withoutEmpty(list, from v1.ResourceList) v1.ResourceList {
	for k, q := range from {
		if _, ok := list[k]; ok {
			continue
		}
		if list == nil {
			list = v1.ResourceList{}
		}
		list[k] = q.DeepCopy()
	}
	return list
}

// warnQuota tells of requests that a quota allows more of than of their limits.
func warnQuota(q *v1.ResourceQuota) []string {
	var out []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceStorage,
		v1.ResourceEphemeralStorage} {
		requests, limits := "requests."+name, "limits."+name
		request, ok := q.Spec.Hard[requests]
		if !ok && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			requests = name
			request, ok = q.Spec.Hard[requests]
		}
		if limit, limited := q.Spec.Hard[limits]; ok && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)", requests,
				request.String(), limits, limit.String()))
		}
	}
	return out
}

func resourceQuotas() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.ResourceQuota, v1.ResourceQuotaList]()
	t.HasStatus, t.NoGenerate = true, true
	return resourcedef.Kind{
		Version: "v1", Resource: "resourcequotas", Singular: "resourcequota", Kind: "ResourceQuota",
		Names: resourcedef.Names{Short: []string{"quota"}},
		Types: t,
		Rules: typed.Rules[v1.ResourceQuota]{
			Default: func(q *v1.ResourceQuota) {
				for _, list := range []v1.ResourceList{q.Spec.Hard, q.Status.Hard, q.Status.Used} {
					podspec.RoundResources(list)
				}
			},
			PrepareForCreate: func(_ context.Context, q *v1.ResourceQuota) { q.Status = v1.ResourceQuotaStatus{} },
			Validate:         validateQuota,
			ValidateStatus: func(q, _ *v1.ResourceQuota) field.ErrorList {
				return validateQuotaStatus(q)
			},
			Warn:                     warnQuota,
			WarnUpdate:               func(_, _ *v1.ResourceQuota) []string { return nil },
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.NameColumn(),
				printers.StringColumn("Request",
					"Request represents a minimum amount of cpu/memory that a container may consume."),
				printers.StringColumn("Limit",
					"Limits control the maximum amount of cpu/memory that a container may use independent of "+
						"contention on the node."), printers.AgeColumn(),
			},
			Row: typed.RowFunc(quotaRow),
		},
	}
}

func quotaRow(q *v1.ResourceQuota, opt resourcedef.RowOptions) []any {
	names := make([]string, 0, len(q.Status.Hard))
	for n := range q.Status.Hard {
		names = append(names, string(n))
	}
	slices.Sort(names)
	var requests, limits []string
	for _, n := range names {
		used, hard := q.Status.Used[v1.ResourceName(n)], q.Status.Hard[v1.ResourceName(n)]
		text := fmt.Sprintf("%s: %s/%s", n, used.String(), hard.String())
		if strings.HasPrefix(n, "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "),
		printers.TimestampSince(q.CreationTimestamp, opt.Now)}
}
