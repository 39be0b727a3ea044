// SPDX-License-Identifier: GPL-2.0-only
/*
 * FPGAs without FPGAs, for the kernel's own core: each is a platform device with a manager, a bridge and a region, as
 * on a Zynq. Below debugfs, `testfpga/plug` and `testfpga/unplug` take the number of one, and each has a folder:
 *
 *   fail_at  fail once, at a phase of the next loading (enum phase)
 *   hang     hold a loading within its write while this is Y
 *   written  what the last loading wrote
 *   partial  whether it was one of a part only
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fpga/fpga-bridge.h>
#include <linux/fpga/fpga-mgr.h>
#include <linux/fpga/fpga-region.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define BUS "axi"
#define CARD "f8007000.devcfg"
#define MOST_CARDS 4
#define MOST_BYTES (1UL << 20)
#define POLL_MS 5

enum phase { AT_NONE, AT_FIRMWARE_REQUEST, AT_PARSE_HEADER, AT_WRITE_INIT, AT_WRITE, AT_WRITE_COMPLETE };

struct card {
	struct fpga_manager *manager;
	struct fpga_bridge *bridge;
	struct fpga_region *region;
	struct dentry *hand;
	struct debugfs_blob_wrapper written;
	unsigned long flags;
	u32 fail_at;
	bool partial;
	bool hang;
	bool gone;
};

static struct platform_device *bus;
static struct platform_device *cards[MOST_CARDS];
static struct dentry *hands;

static bool fails_at(struct card *card, enum phase phase)
{
	return cmpxchg(&card->fail_at, phase, AT_NONE) == phase;
}

/* The manager, as the core drives it: all states are the core's. */

static enum fpga_mgr_states card_state(struct fpga_manager *manager)
{
	return FPGA_MGR_STATE_OPERATING;
}

static int card_parse_header(struct fpga_manager *manager, struct fpga_image_info *info, const char *bits, size_t count)
{
	return fails_at(manager->priv, AT_PARSE_HEADER) ? -EINVAL : 0;
}

static int card_write_init(struct fpga_manager *manager, struct fpga_image_info *info, const char *bits, size_t count)
{
	struct card *card = manager->priv;

	card->written.size = 0;
	card->partial = info->flags & FPGA_MGR_PARTIAL_RECONFIG;
	return fails_at(card, AT_WRITE_INIT) ? -EIO : 0;
}

static int card_write(struct fpga_manager *manager, const char *bits, size_t count)
{
	struct card *card = manager->priv;

	while (READ_ONCE(card->hang) && !READ_ONCE(card->gone))
		msleep(POLL_MS);
	if (READ_ONCE(card->gone))
		return -ENODEV;
	if (fails_at(card, AT_WRITE))
		return -EIO;
	if (count > MOST_BYTES)
		return -EFBIG;
	memcpy(card->written.data, bits, count);
	card->written.size = count;
	return 0;
}

static int card_write_complete(struct fpga_manager *manager, struct fpga_image_info *info)
{
	return fails_at(manager->priv, AT_WRITE_COMPLETE) ? -ETIMEDOUT : 0;
}

/*
 * The core offers userland no way to program a manager: only device tree overlays do. The vendor's kernels add these two
 * attributes to every manager: the flags of the next image, and the name of a firmware file, which is loaded at once.
 */

static ssize_t flags_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct card *card = to_fpga_manager(device)->priv;

	return sysfs_emit(text, "%lx\n", card->flags);
}

static ssize_t flags_store(struct device *device, struct device_attribute *attribute, const char *text, size_t count)
{
	struct card *card = to_fpga_manager(device)->priv;

	return kstrtoul(text, 16, &card->flags) ?: count;
}
static DEVICE_ATTR_RW(flags);

static int load(struct fpga_manager *manager, const char *name)
{
	struct device *owner = manager->dev.parent;
	struct card *card = manager->priv;
	struct fpga_image_info *info = fpga_image_info_alloc(owner);
	int failed;

	if (!info)
		return -ENOMEM;
	info->flags = card->flags;
	info->firmware_name = devm_kstrdup(owner, fails_at(card, AT_FIRMWARE_REQUEST) ? "testfpga-lost.bin" : name, GFP_KERNEL);
	failed = info->firmware_name ? fpga_mgr_load(manager, info) : -ENOMEM;
	fpga_image_info_free(info);
	return failed;
}

static ssize_t firmware_store(struct device *device, struct device_attribute *attribute, const char *text, size_t count)
{
	struct fpga_manager *manager = to_fpga_manager(device);
	char *name = kstrndup(text, count, GFP_KERNEL);
	int failed;

	if (!name)
		return -ENOMEM;
	failed = fpga_mgr_lock(manager);
	if (!failed) {
		failed = load(manager, strim(name));
		fpga_mgr_unlock(manager);
	}
	kfree(name);
	return failed ?: count;
}
static DEVICE_ATTR_WO(firmware);

static struct attribute *vendor_attrs[] = { &dev_attr_flags.attr, &dev_attr_firmware.attr, NULL };
ATTRIBUTE_GROUPS(vendor);

static const struct fpga_manager_ops manager_ops = {
	.groups = vendor_groups,
	.state = card_state,
	.parse_header = card_parse_header,
	.write_init = card_write_init,
	.write = card_write,
	.write_complete = card_write_complete,
};

static int bridge_enabled(struct fpga_bridge *bridge)
{
	return 1;
}

static const struct fpga_bridge_ops bridge_ops = { .enable_show = bridge_enabled };

/* Plugged and pulled. */

static void card_leave(struct card *card)
{
	WRITE_ONCE(card->gone, true);
	debugfs_remove_recursive(card->hand);
	if (!IS_ERR_OR_NULL(card->region))
		fpga_region_unregister(card->region);
	if (!IS_ERR_OR_NULL(card->bridge))
		fpga_bridge_unregister(card->bridge);
	if (!IS_ERR_OR_NULL(card->manager))
		fpga_mgr_unregister(card->manager);
	vfree(card->written.data);
	kfree(card);
}

static int card_join(struct platform_device *device, struct card *card)
{
	card->written.data = vzalloc(MOST_BYTES);
	if (!card->written.data)
		return -ENOMEM;
	card->manager = fpga_mgr_register(&device->dev, "Xilinx Zynq FPGA Manager", &manager_ops, card);
	if (IS_ERR(card->manager))
		return PTR_ERR(card->manager);
	card->bridge = fpga_bridge_register(&device->dev, "bridge 0", &bridge_ops, card);
	if (IS_ERR(card->bridge))
		return PTR_ERR(card->bridge);
	card->region = fpga_region_register(&device->dev, card->manager, NULL);
	if (IS_ERR(card->region))
		return PTR_ERR(card->region);
	card->hand = debugfs_create_dir(dev_name(&device->dev), hands);
	debugfs_create_u32("fail_at", 0600, card->hand, &card->fail_at);
	debugfs_create_bool("hang", 0600, card->hand, &card->hang);
	debugfs_create_bool("partial", 0400, card->hand, &card->partial);
	debugfs_create_blob("written", 0400, card->hand, &card->written);
	return 0;
}

static int card_probe(struct platform_device *device)
{
	struct card *card = kzalloc(sizeof(*card), GFP_KERNEL);
	int failed;

	if (!card)
		return -ENOMEM;
	failed = card_join(device, card);
	if (failed)
		card_leave(card);
	else
		platform_set_drvdata(device, card);
	return failed;
}

static int card_remove(struct platform_device *device)
{
	card_leave(platform_get_drvdata(device));
	return 0;
}

static struct platform_driver driver = {
	.driver.name = CARD,
	.probe = card_probe,
	.remove = card_remove,
};

/* There is one hand: nobody plugs two at once. */

static int plug(void *unused, u64 number)
{
	/* The first one has no number. */
	struct platform_device_info info = {
		.parent = &bus->dev,
		.name = CARD,
		.id = number ?: PLATFORM_DEVID_NONE,
	};
	struct platform_device *device;

	if (number >= MOST_CARDS || cards[number])
		return -EINVAL;
	device = platform_device_register_full(&info);
	if (IS_ERR(device))
		return PTR_ERR(device);
	cards[number] = device;
	return 0;
}

static int unplug(void *unused, u64 number)
{
	if (number >= MOST_CARDS || !cards[number])
		return -EINVAL;
	platform_device_unregister(cards[number]);
	cards[number] = NULL;
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(plug_ops, NULL, plug, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(unplug_ops, NULL, unplug, "%llu\n");

static int __init testfpga_init(void)
{
	int failed;

	bus = platform_device_register_simple(BUS, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(bus))
		return PTR_ERR(bus);
	failed = platform_driver_register(&driver);
	if (failed) {
		platform_device_unregister(bus);
		return failed;
	}
	hands = debugfs_create_dir("testfpga", NULL);
	debugfs_create_file_unsafe("plug", 0200, hands, NULL, &plug_ops);
	debugfs_create_file_unsafe("unplug", 0200, hands, NULL, &unplug_ops);
	return 0;
}
/* It is never unloaded: the guest ends with its tests. */
module_init(testfpga_init);

MODULE_DESCRIPTION("FPGAs for tests of FPGA drivers in userland");
MODULE_LICENSE("GPL");
