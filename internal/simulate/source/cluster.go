package source

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Copied is what was read.
type Copied struct {
	Objects []runtime.Object
	// Unread names the kinds that the caller may not list or that the server has not.
	Unread []string
	// Usage is what containers take; nil: a file tells nothing of it, or the metrics API was not
	// asked
	Usage usage.Figures
	// Times are how long containers take as the journal tells, by behavior.OwnerKey; empty: nothing
	// keeps one, or the caller may not read it
	Times map[string]behavior.Script
}

// kind is one kind that is copied.
type kind struct {
	name     string
	required bool // nothing can be simulated without it
	list     func(ctx context.Context, c kubernetes.Interface, o metav1.ListOptions) (runtime.Object, error)
}

const all = metav1.NamespaceAll

type lists = func(ctx context.Context, c kubernetes.Interface, o metav1.ListOptions) (runtime.Object, error)

// listing adapts a typed list.
func listing[L runtime.Object](
	f func(c kubernetes.Interface) func(context.Context, metav1.ListOptions) (L, error)) lists {
	return func(ctx context.Context, c kubernetes.Interface, o metav1.ListOptions) (runtime.Object, error) {
		return f(c)(ctx, o)
	}
}

// kinds are those that are copied, in the order in which they are read.
func kinds() []kind {
	return append(coreKinds(), workloadKinds()...)
}

// FromCluster copies a cluster. The error says that nodes or Pods cannot be read; of other kinds
// Unread tells.
func FromCluster(ctx context.Context, c kubernetes.Interface) (Copied, error) {
	var out Copied
	for _, k := range kinds() {
		list, err := k.list(ctx, c, metav1.ListOptions{ResourceVersion: "0"})
		switch {
		case err == nil:
		case k.required:
			return out, fmt.Errorf("a copy needs the right to list %s in all namespaces: %w", k.name, err)
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			out.Unread = append(out.Unread, k.name)
			continue
		default:
			return out, fmt.Errorf("listing %s: %w", k.name, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return out, fmt.Errorf("listing %s: %w", k.name, err)
		}
		out.Objects = append(out.Objects, items...)
	}
	out.Times = timesOf(ctx, c, out.Objects)
	return out, nil
}

// Note says what could not be read; empty: everything was.
func (c Copied) Note() string {
	if len(c.Unread) == 0 {
		return ""
	}
	return "not read, so not copied: " + strings.Join(c.Unread, ", ")
}
