package history

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/ptr"
)

// Collision says that another template has the same hash: the count of collisions is to be raised, and the next look tries again.
type Collision struct{ Name string }

// Error names the revision in the way.
func (c Collision) Error() string {
	return fmt.Sprintf("ControllerRevision %s holds another template with the same hash", c.Name)
}

// Keep writes what Find found wanting and returns the revision as stored.
func Keep(ctx context.Context, client typedappsv1.ControllerRevisionInterface, o Owner, have []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
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
	made, err := client.Create(ctx, r, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return made, err
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

// Past is what there is of an owner's revisions.
type Past struct {
	Have  []*appsv1.ControllerRevision
	InUse map[string]bool // by name
	Limit *int32          // of those that are not in use; 10 where the owner gives none
}

// Trim deletes the oldest revisions beyond the limit. An error is the API's.
func Trim(ctx context.Context, client typedappsv1.ControllerRevisionInterface, p Past) error {
	for _, r := range Excess(p.Have, p.InUse, int(ptr.Deref(p.Limit, 10))) {
		if err := client.Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
