package controllerrevision

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/ptr"
)

// Collision means that another template has the same hash: the caller raises the collision count,
// and the next sync tries again.
type Collision struct{ Name string }

// Error names the conflicting revision.
func (c Collision) Error() string {
	return fmt.Sprintf("ControllerRevision %s holds another template with the same hash", c.Name)
}

// Ensure writes what Find returned and returns the stored revision.
func Ensure(ctx context.Context, client typedappsv1.ControllerRevisionInterface, o Owner,
	have []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	found, err := Find(o, have)
	r := found.Revision
	switch {
	case err != nil:
		return nil, err
	case found.Renumber:
		return client.Update(ctx, r, metav1.UpdateOptions{})
	case !found.Create:
		return r, nil
	}
	created, err := client.Create(ctx, r, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	there, err := client.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(there); owner != nil && owner.UID == o.Object.GetUID() && Same(there, r) {
		return there, nil // the cache was behind
	}
	return nil, Collision{r.Name}
}

// Retention is the revisions of an owner and their limit.
type Retention struct {
	Revisions    []*appsv1.ControllerRevision
	InUse        map[string]bool // by name
	HistoryLimit *int32          // of those not in use; nil: 10
}

// Truncate deletes the oldest revisions beyond the limit. It returns the API's error.
func Truncate(ctx context.Context, client typedappsv1.ControllerRevisionInterface, p Retention) error {
	for _, r := range ToDelete(p.Revisions, p.InUse, int(ptr.Deref(p.HistoryLimit, 10))) {
		if err := client.Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
