#!/bin/bash
# Makes the virtual machine of `make vm` from Debian's packages: vmlinuz, initrd and root.ext4
# (systemd, nftables, kmod, e2fsprogs, busybox; nothing is set up by maintainer scripts). What was
# made once is kept under ${XDG_CACHE_HOME:-~/.cache}/gantry by the packages' versions. Prints the
# directory. Needs root: the files of the machine belong to root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gantry
packages=(systemd nftables kmod e2fsprogs mount busybox-static linux-image-cloud-amd64)
# Packages that others depend on and that nothing here runs.
unused='^(perl|libperl|lib.*-perl$|usrmerge|initramfs-tools|klibc|libklibc|debconf|dpkg$|adduser|udev$'
unused="$unused|init-system-helpers|libdb5|libgdbm|linux-image-cloud)"

mkdir -p "$cache"
tmp=$(mktemp -d "$cache/vm.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
: >"$tmp/nothing" # a machine that has no package yet
apt() {
	apt-get -qq -y --no-install-recommends -o Dir::State::status="$tmp/nothing" \
		-o Dir::Cache::archives="$tmp/archives" -o APT::Sandbox::User=root -o Debug::NoLocking=true \
		"$@" install "${packages[@]}"
}
list() { apt --print-uris | awk '{ print $2 }' | awk -F_ -v unused="$unused" '$1 !~ unused'; }
files=$(list 2>"$tmp/said") || { cat "$tmp/said" >&2; exit 1; }
key=$( (echo "$files"; cat "$here/image.sh" "$here/init.sh") | sha256sum | cut -c1-16)
store=$cache/vm-$key
if [ ! -e "$store/done" ]; then
	echo "making the machine from $(wc -l <<<"$files") Debian packages (once)" >&2
	mkdir -p "$tmp/archives/partial" "$tmp/out" "$tmp/root" "$tmp/initrd"/{bin,dev,proc,sys,root}
	apt --download-only >"$tmp/said" 2>&1 || { cat "$tmp/said" >&2; exit 1; }
	root=$tmp/root
	mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,proc,sys,run,tmp,mnt,opt/gantry,var/tmp,etc}
	for d in bin sbin lib lib64; do ln -s usr/$d "$root/$d"; done
	for f in $files; do dpkg-deb --fsys-tarfile "$tmp/archives/$f" | tar -x -C "$root" --keep-directory-symlink; done
	chmod 1777 "$root/tmp" "$root/var/tmp"
	release=$(ls "$root/lib/modules")
	chroot "$root" depmod "$release"

	mv "$root"/boot/vmlinuz-* "$tmp/out/vmlinuz"
	# The kernel has ext4, and virtio's disks as modules: those that modules.dep names, what others
	# need first.
	for m in virtio_pci virtio_blk; do
		sed -n "s|/$m\.ko:|&|; T; s|: *| |p" "$root/lib/modules/$release/modules.dep" | tr ' ' '\n' | grep . | tac
	done | awk '!seen[$0]++' | while read -r m; do
		cp "$root/lib/modules/$release/$m" "$tmp/initrd/"
		basename "$m" >>"$tmp/initrd/modules"
	done
	cp "$root/usr/bin/busybox" "$tmp/initrd/bin/busybox"
	install -m 755 "$here/init.sh" "$tmp/initrd/init"
	(cd "$tmp/initrd" && find . | busybox cpio -o -H newc 2>/dev/null) >"$tmp/out/initrd"

	rm -rf "$root"/usr/share/{doc,man,locale,info,lintian,bash-completion,zsh} "$root/boot" "$root"/etc/systemd/system/*
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n' >"$root/etc/passwd"
	printf 'root:x:0:\ntty:x:5:\nkmem:x:15:\ndisk:x:6:\nnogroup:x:65534:\n' >"$root/etc/group"
	echo node >"$root/etc/hostname"
	echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
	printf 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\n' >"$root/etc/os-release"
	printf '127.0.0.1 localhost node\n' >"$root/etc/hosts"
	printf 'nameserver 127.0.0.1\n' >"$root/etc/resolv.conf"
	ln -sf /dev/null "$root/etc/systemd/system/systemd-journald.service"
	mkdir -p "$root/etc/systemd/system.conf.d" # else a container may have 15 % of all tasks
	printf "[Manager]\nDefaultTasksMax=infinity\n" >"$root/etc/systemd/system.conf.d/vm.conf"
	cat >"$root/etc/systemd/system/gantry-vm.target" <<-END
		[Unit]
		Description=Gantry under pressure
		Requires=gantry-vm.service
		AllowIsolate=yes
	END
	cat >"$root/etc/systemd/system/gantry-vm.service" <<-END
		[Unit]
		Description=The scenarios of make vm
		DefaultDependencies=no
		[Service]
		ExecStart=/opt/gantry/guest
		StandardOutput=tty
		StandardError=tty
		TTYPath=/dev/ttyS0
		OOMScoreAdjust=-999
		Delegate=yes
		TasksMax=infinity
	END
	mke2fs -q -t ext4 -d "$root" -E lazy_itable_init=1,lazy_journal_init=1 "$tmp/out/root.ext4" 4G >/dev/null
	touch "$tmp/out/done"
	mv -T "$tmp/out" "$store" 2>/dev/null || true # another one was faster: its files are the same
	# shellcheck disable=SC2012
	ls -dt "$cache"/vm-* | tail -n +3 | xargs -r rm -rf # keep the last two
fi
echo "$store"
