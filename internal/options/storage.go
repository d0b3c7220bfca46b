package options

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/cli"
)

// Storage says where objects are kept and how.
type Storage struct {
	Etcd  store.Options
	quota int64 // bytes
}

// EtcdFlags say which etcd; their names are upstream's.
func (k *Storage) EtcdFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&k.Etcd.Servers, "etcd-servers", nil, "external etcd servers; none means etcd inside this process")
	f.StringVar(&k.Etcd.CAFile, "etcd-cafile", "", "certificate authority of the external etcd servers")
	f.StringVar(&k.Etcd.CertFile, "etcd-certfile", "", "client certificate shown to the external etcd servers")
	f.StringVar(&k.Etcd.KeyFile, "etcd-keyfile", "", "its key")
}

func (k *Storage) flags(f *pflag.FlagSet) {
	k.EtcdFlags(f)
	f.Int64Var(&k.quota, "quota-backend-bytes", 0, "size at which the embedded etcd refuses writes (default: 8 GiB)")
}

func (k *Storage) Complete() error {
	if k.quota < 0 {
		return cli.UsageError(fmt.Errorf("--quota-backend-bytes %d: must not be negative", k.quota))
	}
	k.Etcd.Quota = k.quota
	if (k.Etcd.CertFile == "") != (k.Etcd.KeyFile == "") {
		return cli.UsageError(fmt.Errorf("--etcd-certfile and --etcd-keyfile belong together: give both or none"))
	}
	return nil
}
