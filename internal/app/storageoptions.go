package app

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// storageOptions says where objects are kept and how.
type storageOptions struct {
	etcd  store.Options
	quota int64 // bytes
}

// etcdFlags say which etcd; their names are upstream's.
func (k *storageOptions) etcdFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&k.etcd.Servers, "etcd-servers", nil, "external etcd servers; none means etcd inside this process")
	f.StringVar(&k.etcd.CAFile, "etcd-cafile", "", "certificate authority of the external etcd servers")
	f.StringVar(&k.etcd.CertFile, "etcd-certfile", "", "client certificate shown to the external etcd servers")
	f.StringVar(&k.etcd.KeyFile, "etcd-keyfile", "", "its key")
}

func (k *storageOptions) flags(f *pflag.FlagSet) {
	k.etcdFlags(f)
	f.Int64Var(&k.quota, "quota-backend-bytes", 0, "size at which the embedded etcd refuses writes (default: 8 GiB)")
}

func (k *storageOptions) complete() error {
	if k.quota < 0 {
		return usageError(fmt.Errorf("--quota-backend-bytes %d: must not be negative", k.quota))
	}
	k.etcd.Quota = k.quota
	if (k.etcd.CertFile == "") != (k.etcd.KeyFile == "") {
		return usageError(fmt.Errorf("--etcd-certfile and --etcd-keyfile belong together: give both or none"))
	}
	return nil
}
