import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;

/**
 * Prints the keys of all settings that Flink's jars declare, older names included: the contents of
 * penstock/core/flink_keys.txt.
 *
 * <p>java scripts/FlinkKeys.java lib/flink-dist-*.jar opt/flink-python-*.jar lib/log4j-api-*.jar ...
 *
 * <p>Left out are options of single tables, which are no settings, and keys below a name that users choose.
 */
public class FlinkKeys {
    private static final List<String> TABLES =
            List.of(".connector.", ".catalog.", ".formats.", ".table.sinks.", ".utils.python.", ".module.",
                    ".secret.", ".arrow.", "LookupJoinHint", "VectorSearch", "MLPredict", "StreamConfig");
    private static final List<String> PARTS =
            List.of("class", "interval", "factory", "filter", "scope", "enabled", "partition", "internal",
                    "query", "hidden");
    private static final List<String> OPEN =
            List.of("$internal.", "table.", "external-resource.", "flink.hadoop.", "flink.yarn.", "fs.");

    public static void main(String[] jars) throws Exception {
        URL[] urls = Stream.of(jars).map(FlinkKeys::url).toArray(URL[]::new);
        URLClassLoader loader = new URLClassLoader(urls, FlinkKeys.class.getClassLoader());
        TreeSet<String> keys = new TreeSet<>();
        for (String jar : jars) {
            try (JarFile file = new JarFile(jar)) {
                for (JarEntry entry : Collections.list(file.entries())) {
                    read(loader, entry.getName(), keys);
                }
            }
        }
        keys.stream().filter(FlinkKeys::isWhole).forEach(System.out::println);
    }

    private static void read(ClassLoader loader, String entry, TreeSet<String> keys) {
        String name = entry.replace('/', '.').replaceFirst("\\.class$", "");
        boolean declares = name.contains("Option") || name.contains("Config");
        if (!entry.endsWith(".class") || !name.startsWith("org.apache.flink.") || !declares) {
            return;
        }
        boolean ofReaders = name.endsWith(".SourceReaderOptions");
        if (!ofReaders && TABLES.stream().anyMatch(name::contains)) {
            return;
        }
        try {
            Class<?> option = loader.loadClass("org.apache.flink.configuration.ConfigOption");
            for (Field field : Class.forName(name, false, loader).getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && field.getType() == option) {
                    field.setAccessible(true);
                    Object declared = field.get(null);
                    keys.add((String) option.getMethod("key").invoke(declared));
                    for (Object older : (Iterable<?>) option.getMethod("fallbackKeys").invoke(declared)) {
                        keys.add((String) older.getClass().getMethod("getKey").invoke(older));
                    }
                }
            }
        } catch (ReflectiveOperationException | LinkageError e) {
            System.err.println(name + ": " + e);
        }
    }

    private static boolean isWhole(String key) {
        return !key.contains("<")
                && !key.contains("#")
                && OPEN.stream().noneMatch(key::startsWith)
                && !PARTS.contains(key.split("\\.")[0]);
    }

    private static URL url(String jar) {
        try {
            return new File(jar).toURI().toURL();
        } catch (java.net.MalformedURLException e) {
            throw new IllegalArgumentException(jar, e);
        }
    }
}
