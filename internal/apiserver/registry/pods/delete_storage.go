package pods

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// deleteStorage keeps the decision about a delete from being made on an old copy. The library first
// tries an update on what the watch cache holds, and the grace period decided there sticks to the
// request: a Pod bound a moment ago, but not yet in the cache, would count as never placed and be
// removed at once. So an update for a delete sees nothing older than a read made when it began.
type deleteStorage struct{ storage.Interface }

// errStaleCache makes the library read again.
var errStaleCache = errors.New("the cached copy is older than the stored object")

// GuaranteedUpdate refuses old copies while deleting.
func (f *deleteStorage) GuaranteedUpdate(ctx context.Context, key string, dst runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	if !isDelete(ctx) {
		return f.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre, try, cached)
	}
	now := &v1.Pod{}
	if err := f.Get(ctx, key, storage.GetOptions{IgnoreNotFound: ignoreNotFound}, now); err != nil {
		return err
	}
	least, err := f.Versioner().ObjectResourceVersion(now)
	if err != nil {
		return err
	}
	return f.Interface.GuaranteedUpdate(ctx, key, dst, ignoreNotFound, pre,
		func(in runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if m.ResourceVersion < least {
				return nil, nil, errStaleCache
			}
			return try(in, m)
		}, cached)
}

// isDelete says that the request removes Pods: a delete, or an eviction.
func isDelete(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && (info.Verb == "delete" || info.Verb == "deletecollection" || info.Subresource == "eviction")
}
